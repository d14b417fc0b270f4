"""Files that came from somewhere: a checkout, a neighbour, a bundle of agents."""
