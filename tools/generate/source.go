package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// source is all that is generated from.
type source struct {
	errors errorList
	limits []limit
}

type errorList struct {
	Comment  string    `json:"comment"`
	Codes    []code    `json:"codes"`
	Outcomes []outcome `json:"outcomes"`
	Local    []code    `json:"local"`
}

type code struct {
	Number  int    `json:"number"`
	Name    string `json:"name"`
	Meaning string `json:"meaning"`
}

type outcome struct {
	Number  int    `json:"number"`
	Name    string `json:"name"`
	Text    string `json:"text"`
	Meaning string `json:"meaning"`
}

type limit struct {
	Name    string `json:"name"`
	Default int64  `json:"default"`
	Maximum *int64 `json:"maximum"`
	Unit    string `json:"unit"`
	Option  string `json:"option"`
	Meaning string `json:"meaning"`
	Reason  string `json:"reason"`
}

func load(dir string) (source, error) {
	var list errorList
	if err := decode(filepath.Join(dir, "errors.json"), &list); err != nil {
		return source{}, err
	}
	var limits struct {
		Comment string  `json:"comment"`
		Limits  []limit `json:"limits"`
	}
	if err := decode(filepath.Join(dir, "limits.json"), &limits); err != nil {
		return source{}, err
	}
	err := errors.Join(checkErrors(list), checkLimits(limits.Limits))
	return source{list, limits.Limits}, err
}

// decode refuses fields it does not know: a misspelt "maximum" must not
// silently make a limit fixed.
func decode(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

var (
	upperName = regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	lowerName = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
)

// firstLocal keeps return codes of the C library clear of codes on the wire.
const firstLocal = 100

func checkErrors(list errorList) error {
	var problems []error
	names := map[string]bool{}
	for i, c := range list.Codes {
		problems = append(problems, checkCode("code", c, i, names))
	}
	for i, c := range list.Local {
		problems = append(problems, checkCode("local code", c, firstLocal+i, names))
	}
	names = map[string]bool{}
	for i, o := range list.Outcomes {
		problems = append(problems, checkCode("outcome", code{o.Number, o.Name, o.Meaning}, i, names))
		if o.Text == "" {
			problems = append(problems, fmt.Errorf("errors.json: outcome %s has no text", o.Name))
		}
	}
	return errors.Join(problems...)
}

func checkCode(kind string, c code, want int, names map[string]bool) error {
	switch {
	case !upperName.MatchString(c.Name):
		return fmt.Errorf("errors.json: %s %d: name %q is not of the form UPPER_CASE", kind, c.Number, c.Name)
	case names[c.Name]:
		return fmt.Errorf("errors.json: %s %s appears twice", kind, c.Name)
	case c.Number != want:
		return fmt.Errorf("errors.json: %s %s has number %d; the next one is %d", kind, c.Name, c.Number, want)
	case c.Meaning == "":
		return fmt.Errorf("errors.json: %s %s has no meaning", kind, c.Name)
	}
	names[c.Name] = true
	return nil
}

func checkLimits(limits []limit) error {
	var problems []error
	names := map[string]bool{}
	for _, l := range limits {
		problems = append(problems, checkLimit(l, names))
		names[l.Name] = true
	}
	return errors.Join(problems...)
}

func checkLimit(l limit, names map[string]bool) error {
	switch {
	case !lowerName.MatchString(l.Name):
		return fmt.Errorf("limits.json: name %q is not of the form lower_case", l.Name)
	case names[l.Name]:
		return fmt.Errorf("limits.json: %s appears twice", l.Name)
	case l.Default <= 0:
		return fmt.Errorf("limits.json: %s: default %d is not positive", l.Name, l.Default)
	case l.Maximum != nil && *l.Maximum < l.Default:
		return fmt.Errorf("limits.json: %s: maximum %d is below the default %d", l.Name, *l.Maximum, l.Default)
	case l.Unit == "" || l.Meaning == "" || l.Reason == "":
		return fmt.Errorf("limits.json: %s needs a unit, a meaning and a reason", l.Name)
	}
	return nil
}
