"""What the report says and shows of the results."""
