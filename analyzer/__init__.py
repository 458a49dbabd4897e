"""What it means for the fabric: congestion, suggested routes, and the frozen Frame of a tick."""
