"""The private Apache Kafka of one machine: jars, Java, a broker that ends with its owner."""
