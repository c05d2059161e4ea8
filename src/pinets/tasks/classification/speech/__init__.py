"""Speech: sound files, spectrograms, augmentations, and the Speech Commands dataset."""
