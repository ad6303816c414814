"""Documentation, and the program that writes the pages that are made from code."""
