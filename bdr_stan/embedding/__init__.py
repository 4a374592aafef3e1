"""Landmarks, mean embeddings, their shrinkage and the compression of their rows."""
