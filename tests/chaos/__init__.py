"""Kills, zombies and take-overs on a real Kafka, with the proof of what came out."""
