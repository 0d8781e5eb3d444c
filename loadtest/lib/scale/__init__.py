"""What many daemons would carry, by the costs that campaigns measured."""
