// Package machine describes the machine a program runs on: times mean little without it.
package machine

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// Unknown stands where the machine does not tell.
const Unknown = "unknown"

// A Machine is where something was measured.
type Machine struct {
	CPU            string `json:"cpu"`
	CPUs           int    `json:"cpus"`
	Kernel         string `json:"kernel"`
	Virtualisation string `json:"virtualisation"`
	IdleDriver     string `json:"cpu_idle_driver"`
	SMT            string `json:"smt"`
	Architecture   string `json:"architecture"`
}

// This describes the machine this program runs on.
func This() Machine {
	return Machine{
		CPU:            cpuModel(),
		CPUs:           runtime.NumCPU(),
		Kernel:         fileText("/proc/sys/kernel/osrelease"),
		Virtualisation: virtualisation(),
		IdleDriver:     fileText("/sys/devices/system/cpu/cpuidle/current_driver"),
		SMT:            fileText("/sys/devices/system/cpu/smt/active"),
		Architecture:   runtime.GOARCH,
	}
}

// Slug names the kind of machine in file names.
func (m Machine) Slug() string {
	words := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(m.CPU), "-")
	return strings.Trim(words, "-") + "-" + strconv.Itoa(m.CPUs) + "cpu"
}

func cpuModel() string {
	for line := range strings.Lines(fileText("/proc/cpuinfo")) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return Unknown
}

// virtualisation prefers the hypervisor's name and falls back to the processor's
// word that there is one.
func virtualisation() string {
	// It exits with 1 when it found none and says so.
	if name, err := exec.Command("systemd-detect-virt", "--vm").Output(); err == nil && len(name) > 0 {
		return strings.TrimSpace(string(name))
	}
	if strings.Contains(fileText("/proc/cpuinfo"), " hypervisor") {
		return "virtual machine"
	}
	return "none"
}

func fileText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return Unknown
	}
	return strings.TrimSpace(string(text))
}
