"""Find or build CmdStan; find, compile and cache Stan programs."""
