package machine_test

import (
	"testing"

	"github.com/nearcall/nearcall/internal/machine"
)

func TestThisMachineIsDescribed(t *testing.T) {
	this := machine.This()
	if this.CPUs < 1 || this.CPU == "" || this.Kernel == "" || this.Virtualisation == "" || this.AllowedCPUs == machine.Unknown || this.ThreadSiblings == "" || this.Slug() == "" {
		t.Errorf("got %+v", this)
	}
}

func TestSlug(t *testing.T) {
	m := machine.Machine{CPU: "AMD EPYC 7B13 (R) @2.5", CPUs: 2}
	if got := m.Slug(); got != "amd-epyc-7b13-r-2-5-2cpu" {
		t.Errorf("got %q", got)
	}
}

func TestSiblingsStandOnce(t *testing.T) {
	if got := machine.Distinct([]string{"10,11", "2,3", "2,3", "0-1", ""}); got != "0-1 2,3 10,11" {
		t.Errorf("got %q", got)
	}
	if got := machine.Distinct(nil); got != machine.Unknown {
		t.Errorf("of none: %q", got)
	}
}
