package main

import "fmt"

// showVector prints what each trial of a vector sends, for those who play the
// vectors with a program of their own. Variables that only a connection gives
// have the values that the runner's own defaults would lead to.
func (r *runner) showVector(name string) error {
	for _, v := range r.vectors {
		if v.name != name {
			continue
		}
		for _, t := range v.cases() {
			if err := r.showTrial(t); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("there is no vector %s", name)
}

func (r *runner) showTrial(t trial) error {
	r.report.note("%s: %s", t.name, t.Meaning)
	s := newSession(r.spec, t)
	s.assumeAnswers()
	for _, step := range t.Steps {
		verb, err := stepVerb(step)
		if err != nil {
			return err
		}
		if verb != "send" {
			r.report.note("  %s", show(step))
			continue
		}
		data, err := s.encode.bytes(step["send"])
		if err != nil {
			r.report.note("  send %s (%v)", show(step["send"]), err)
			continue
		}
		r.report.note("  send %x", data)
	}
	return nil
}

// assumeAnswers sets what "open" and "expect request" would capture.
func (s *session) assumeAnswers() {
	for _, name := range []string{"welcome.frame_bytes_max", "hello.frame_bytes_max"} {
		s.vars.set(name, s.spec.limits["frame_bytes_max"])
	}
	s.vars.set("welcome.calls_in_flight_max", s.spec.limits["calls_in_flight_max"])
	s.vars.set("request.call_id", uint64(1))
	s.vars.set("request.function", callables["echo"].id)
	s.vars.set("request.codec", "raw")
	s.vars.set("request.echo", []byte("hi"))
}
