"""Records of trials: how one is sealed, which trial it is of (identity), and where it is found again (store)."""
