"""Systems about regression: which interpolant does training select?"""
