"""Predicts the capacity of many daemons from the costs that campaigns measured."""
