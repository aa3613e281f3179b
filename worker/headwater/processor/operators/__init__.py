"""What each node does: per operator of ``model.plan`` a function that compiles it to a closure."""
