"""An application that Spark runs continuously: by turns, each up to offsets given beforehand."""
