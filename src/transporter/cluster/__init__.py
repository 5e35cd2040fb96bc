"""Exploration on many machines: players in processes of their own, one learner, Ray between them (extra `ray`)."""
