"""The control loop's decision, part by part and as a whole."""
