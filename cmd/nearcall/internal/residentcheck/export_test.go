package residentcheck

import "regexp"

// The copied directory, and comparing, as Check uses them.
var NewCopy = newCopy

func (c *copied) Path() string                        { return c.path }
func (c *copied) PutBack() error                      { return c.putBack() }
func (c *copied) Changes() (map[string]string, error) { return c.changes() }

// A Done is what a run did.
type Done struct {
	Output, Errors, Signal string
	Code                   int
	Files                  map[string]string
}

func (d Done) run() *Run {
	return &Run{output: d.Output, errors: d.Errors, Signal: d.Signal, ExitCode: d.Code, files: d.Files}
}

// Compare compares a run with two plain ones.
func Compare(plain, again, got Done, ignore ...*regexp.Regexp) (differences []Difference, varies []string) {
	c := comparison{plain: plain.run(), again: again.run(), ignore: ignore}
	return c.differences(got.run()), c.varies()
}
