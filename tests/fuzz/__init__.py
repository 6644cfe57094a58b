"""A machine that searches for silent differences: many small random migrations, compared with their upstream."""
