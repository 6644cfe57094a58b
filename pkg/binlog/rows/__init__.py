"""From the rows of an event to SQL literals."""
