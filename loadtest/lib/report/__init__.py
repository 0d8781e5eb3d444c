"""The report: text, tables and plots of the results."""
