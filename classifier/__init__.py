"""What the traffic is: labels, features, the model, its training and its evaluation."""
