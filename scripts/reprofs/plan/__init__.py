"""From a study to its trials: descriptors as files say them, checked; what follows from them before anything runs."""
