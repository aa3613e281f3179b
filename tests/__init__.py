"""Tests: unit, property, golden, contract, sim, kafka, oracle, chaos."""
