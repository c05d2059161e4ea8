"""What is done to samples on their way into a network."""
