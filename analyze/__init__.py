"""Questions asked of recordings, and answers with their uncertainty."""
