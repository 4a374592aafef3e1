"""Questions to a fit: each file has the mathematics, the result, and a class with the method."""
