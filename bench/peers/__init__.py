"""What the peers need to take part: each file makes a peer's tables through the peer's own interfaces."""
