"""One self-contained HTML file that tells the whole story, verdict first."""
