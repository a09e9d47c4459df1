package handoff_test

import (
	"testing"
	"time"
)

// patience bounds waits for what comes.
const patience = 30 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
