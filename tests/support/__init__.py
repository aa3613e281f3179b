"""Things the tests share."""
