"""Maximum over windows."""
