"""Taking trained networks elsewhere: files, other runtimes, encrypted inference."""
