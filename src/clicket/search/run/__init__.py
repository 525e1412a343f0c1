"""One search, stage by stage: what was finished is never done again."""
