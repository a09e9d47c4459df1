package result

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// unknown stands where the machine does not tell.
const unknown = "unknown"

// A Machine is where a run took place: times mean little without it.
type Machine struct {
	CPU            string `json:"cpu"`
	CPUs           int    `json:"cpus"`
	Kernel         string `json:"kernel"`
	Virtualisation string `json:"virtualisation"`
	IdleDriver     string `json:"cpu_idle_driver"`
	SMT            string `json:"smt"`
	Architecture   string `json:"architecture"`
}

// Versions are those of what took part.
type Versions struct {
	Nearcall string `json:"nearcall"`
	Go       string `json:"go"`
	C        string `json:"c"`
	Perl     string `json:"perl"`
	Python   string `json:"python"`
}

// ThisMachine describes the machine this program runs on.
func ThisMachine() Machine {
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

// ThisSoftware asks the tools for their versions. source is the repository's
// root.
func ThisSoftware(source, perl, python string) Versions {
	return Versions{
		Nearcall: commandText("git", "-C", source, "describe", "--always", "--dirty"),
		Go:       runtime.Version(),
		C:        commandText("gcc", "-dumpfullversion"),
		Perl:     commandText(perl, "-e", "print $^V"),
		Python:   commandText(python, "-c", "import platform; print(platform.python_version())"),
	}
}

func cpuModel() string {
	for line := range strings.Lines(fileText("/proc/cpuinfo")) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

// virtualisation prefers the hypervisor's name and falls back to the processor's
// word that there is one.
func virtualisation() string {
	// It exits with 1 when it found none and says so.
	if name := commandText("systemd-detect-virt", "--vm"); name != unknown && name != "none" {
		return name
	}
	if strings.Contains(fileText("/proc/cpuinfo"), " hypervisor") {
		return "virtual machine"
	}
	return "none"
}

func fileText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	return strings.TrimSpace(string(text))
}

func commandText(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil || len(out) == 0 {
		return unknown
	}
	return strings.TrimSpace(string(out))
}
