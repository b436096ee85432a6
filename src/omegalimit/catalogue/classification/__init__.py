"""Systems about linear classification: which separator does training select, and when should it stop?"""
