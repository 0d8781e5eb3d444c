"""Starts, asks and stops what is built: private servers, daemons, HTTP. For test/ and loadtest/."""
