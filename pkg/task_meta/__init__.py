"""What DM left of a task in the target's meta schema."""
