"""Systems about networks with neurons: how many does training use, and where is their parametrisation critical?"""
