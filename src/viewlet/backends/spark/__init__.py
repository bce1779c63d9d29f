"""The Spark backend: trigger programs spread over partitions, whose state lives on the executors."""
