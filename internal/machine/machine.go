// Package machine describes the machine a program runs on: times mean little without it.
package machine

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Unknown stands where the machine does not tell.
const Unknown = "unknown"

// A Machine is where something was measured.
type Machine struct {
	CPU         string `json:"cpu"`
	CPUs        int    `json:"cpus"`         // that this program may use
	AllowedCPUs string `json:"allowed_cpus"` // which of them, as "0-3,8"
	// Lists of CPUs that share a core, with a space between them.
	ThreadSiblings string `json:"thread_siblings"`
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
		AllowedCPUs:    allowedCPUs(),
		ThreadSiblings: threadSiblings(),
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

func allowedCPUs() string {
	for line := range strings.Lines(fileText("/proc/self/status")) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list)
		}
	}
	return Unknown
}

// threadSiblings are those of CPUs that are on, allowed or not: a CPU that shares a core with an
// allowed one slows it down.
func threadSiblings() string {
	// The pattern is well formed.
	paths, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
	var lists []string
	for _, path := range paths {
		if list := fileText(path); list != Unknown {
			lists = append(lists, list)
		}
	}
	return Distinct(lists)
}

// Distinct are the lists of CPUs that differ, in the order of their first CPUs.
func Distinct(lists []string) string {
	first := func(list string) int {
		end := strings.IndexAny(list+",", ",-")
		number, _ := strconv.Atoi(list[:end])
		return number
	}
	lists = slices.DeleteFunc(slices.Clone(lists), func(list string) bool { return list == "" })
	slices.SortFunc(lists, func(a, b string) int { return cmp.Or(cmp.Compare(first(a), first(b)), strings.Compare(a, b)) })
	return cmp.Or(strings.Join(slices.Compact(lists), " "), Unknown)
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
