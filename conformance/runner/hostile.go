package main

func (r *runner) attack() error          { return nil }
func (r *runner) measureBadInput() error { return nil }
