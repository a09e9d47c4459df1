// Command record appends what a long test counted to benchmarks/results:
//
//	go run -C benchmarks ./record -name fork-c -count 100000 -failures 0 -seconds 41.5
//
// One JSON object a line, in the file soak-NAME.jsonl. A test that counted
// failures is recorded like any other: the record is what happened.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A record is one run of a long test.
type record struct {
	Name     string         `json:"name"`
	Count    int64          `json:"count"`    // what was done, as forks or calls
	Failures int64          `json:"failures"` // of them
	Seconds  float64        `json:"seconds"`
	Date     time.Time      `json:"date"`
	Machine  result.Machine `json:"machine"`
	Note     string         `json:"note,omitempty"`
}

func main() {
	r := record{Date: time.Now().UTC().Truncate(time.Second), Machine: result.ThisMachine()}
	folder := flag.String("folder", "results", "where the file is")
	flag.StringVar(&r.Name, "name", "", "of the test, in small letters, digits and hyphens")
	flag.Int64Var(&r.Count, "count", -1, "how much was done")
	flag.Int64Var(&r.Failures, "failures", -1, "how much of it failed")
	flag.Float64Var(&r.Seconds, "seconds", -1, "how long it took")
	flag.StringVar(&r.Note, "note", "", "what a reader should know, as the seed")
	flag.Parse()
	if err := r.appendTo(*folder); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func (r *record) appendTo(folder string) error {
	if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(r.Name) || r.Count < 0 || r.Failures < 0 || r.Seconds < 0 {
		return fmt.Errorf("-name, -count, -failures and -seconds are needed; got %+v", *r)
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(folder, "soak-"+r.Name+".jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	// One write, so that tests that end together do not mix their lines.
	if _, err := file.Write(append(line, '\n')); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
