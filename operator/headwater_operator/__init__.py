"""The control loop: observe, decide, act. Imports only the pure floor of ``headwater``."""
