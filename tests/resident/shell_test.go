package resident_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// A script is what users of shells do. It prints the same and ends the same whether its
// programs are resident or not; want is what it prints, "" where the plain run tells.
type script struct {
	name string
	kind func(k kind) bool
	text string
	want string
	runs int // by the resident, at least
}

func scripts() []script {
	return []script{
		{"head", all, `$run yes | head -1`, "y\n", 1},
		{"head's code", own, `$run yes | head -1; echo ${PIPESTATUS[*]}`, "y\n141 0\n", 1},
		{"code", all, `$run report 77 >/dev/null; echo $?`, "77\n", 1},
		{"no arguments", all, `$run; echo $?`, "99\n", 1},
		{"and, or", all, `$run leave 0 && $run leave 1 || echo no`, "no\n", 2},
		{"substitution", all, `echo "[$($run say a b)]"`, "[a b]\n", 1},
		{"file", all, `$run say to a file >file; $run say more >>file; cat file`, "to a file\nmore\n", 2},
		{"errors", all, `MARK=here $run report 3 2>&1 >/dev/null; echo $?`, "mark here\n3\n", 1},
		{"full disk", all, `$run write 100000 >/dev/full; echo $?`, "1\n", 1},
		{"here", all, "$run copy <<END\none\ntwo\nEND", "one\ntwo\n", 1},
		{"input from a file", all, `echo from a file >file; $run copy <file`, "from a file\n", 1},
		{"one input for two", all, `echo 123456789 >file; { $run take 3; $run take 2; cat; } <file`, "123456789\n", 2},
		{"one pipe for two", all, `echo 123456789 | { $run take 3; echo; $run take 2; echo; cat; }`, "123\n45\n6789\n", 2},
		{"no input", all, `$run copy </dev/null; echo $?`, "0\n", 1},
		{"a pipe of two", atOnce, `seq 5000 | $run copy | $run copy | md5sum`, "", 2},
		{"background", all, `$run leave 5 & wait $!; echo $?`, "5\n", 1},
		{"two in the background", all, `$run leave 5 & a=$!; $run leave 6 & wait $!; echo $?; wait $a; echo $?`, "6\n5\n", 2},
		{"two append to one file", all, appending, "100 100\n", 100},
		{"xargs", all, `seq 50 | xargs -P8 -n1 $run say | sort -n | tr '\n' ' ' | cut -c1-12,130-`, "1 2 3 4 5 6 47 48 49 50 \n", 50},
		{"xargs, code", all, `seq 3 | xargs -n1 $run leave; echo $?`, "123\n", 3},
		{"make", all, makefile, "20\n0\n20\n0\n", 40},
		{"env -i", all, `$run say; env -i $(env | grep -E '^(XDG_RUNTIME_DIR|LANG)=') $run report 4 | grep -o '"names":[^]]*'`, "", 2},
		{"a link of the program's name", all, `ln -s ` + launcher + ` tool; mkdir bin; ln -s "$program" bin/tool; PATH=$PWD:$PWD/bin:$PATH; tool say by its name`, "by its name\n", 0},
		{"nohup", all, `nohup $run report 6 2>/dev/null <file | grep -c args; echo ${PIPESTATUS[0]}`, "1\n6\n", 1},
		{"signal, code", own, `$run signal 15; echo $?; $run signal 9; echo $?`, "143\n137\n", 2},
		{"a group of its own", isForked, `$run lead`, "leads 0\n", 1},
		{"ignored signals", isForked, `(trap '' HUP PIPE USR1; $run ignored) | ` + lowSignals + `; $run ignored | ` + lowSignals, "", 2},
		{"head's code, SIGPIPE is ignored", own, `(trap '' PIPE; $run write 1000000 | head -c1; echo ${PIPESTATUS[0]})`, "", 1},
		{"umask", all, `umask 027; $run report 0 </dev/null | grep -o '"umask":[^,}]*'`, "", 1},
		{"core", own, `ulimit -c 0; $run limits core`, "0\n", 1},
		{"descriptors", own, `ulimit -n 99; $run limits files`, "99\n", 1},
		{"bytes", own, `ulimit -f 8; $run limits bytes; $run write 100000 >file; echo $?; wc -c <file`, "", 2},
		{"limits of another", own, `(ulimit -n 99; $run limits files); $run limits files`, "", 2},
		{"descriptors of commands", ownGo, `$run files own; $run files child; (ulimit -Sn 77; $run files child); (ulimit -n 999; $run files own; $run files child); $run files child`, "", 6},
		{"time", all, `{ time -p $run leave 3; } 2>/dev/null; echo $?`, "3\n", 1},
		{"many arguments", all, `$run say $(seq 5000) | md5sum; echo ${PIPESTATUS[*]}`, "", 1},
		{"long environment", all, `LONG=$(seq 5000 | head -c 100000) $run report 0 </dev/null | grep -o '"LONG"'`, "\"LONG\"\n", 1},
		{"large input and output", all, `head -c 3000000 /dev/zero | tr '\0' '\n' | $run copy | wc -c`, "3000000\n", 1},
		{"--no-resident", all, `$run --no-resident say plainly`, "plainly\n", 0},
		{"exec", all, `(exec $run leave 9); echo $?`, "9\n", 1},
		{"trap", all, `trap 'echo trapped' USR1; kill -USR1 $$; $run leave 1; echo $?`, "trapped\n1\n", 1},
	}
}

// lowSignals keeps signals 1 to 28 of a set: 32 and 33 are the C library's, which lets nobody
// ignore them, and a service manager may have left them ignored.
const lowSignals = `sed 's/^\(SigIgn:.\)[0-9a-f]\{9\}/\1/'`

const appending = `
for i in $(seq 50); do echo $i; done | xargs -P2 -n1 $run say from a >>both &
for i in $(seq 50); do echo $i; done | xargs -P2 -n1 $run say from b >>both &
wait
echo $(wc -l <both) $(grep -c '^from [ab] [0-9]*$' both)`

const makefile = `
cat >Makefile <<'END'
targets := $(shell seq 20)
all: $(targets:%=made.%)
	@cat $^ | sort -u | wc -l
made.%:
	@$(run) say $@ >$@
END
make -s -j8; echo $?; rm made.*; make -s -j8; echo $?; rm made.*`

// Whatever a script does, it does the same as with plain runs.
func TestScripts(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.run("say") // starts the resident
		for _, s := range scripts() {
			if s.kind(p.kind) {
				t.Run(s.name, func(t *testing.T) { p.within(t).expectScript(s) })
			}
		}
	})
}

// within is the same place for a part of a test.
func (p *place) within(t *testing.T) *place {
	part := *p
	part.t = t
	return &part
}

func (p *place) expectScript(s script) {
	p.t.Helper()
	before := p.waitIdle()
	got := p.shell(p.fresh() + s.text)
	after := p.waitRuns(before.Runs + s.runs)
	if s.want != "" && got.output != s.want {
		p.t.Errorf("%s, not %q", got, s.want)
	}
	// Where a plain start takes long, what is known is enough.
	if s.want == "" || ownGo(p.kind) {
		plain := p.shell(p.fresh()+s.text, "NEARCALL_NO_RESIDENT=1")
		if got, plain := comparable(got), comparable(plain); got != plain {
			p.t.Errorf("with a resident:\n%s\nplainly:\n%s", got, plain)
		}
	}
	if after.PID != before.PID {
		p.t.Errorf("the resident is %d, and it was %d", after.PID, before.PID)
	}
}

// fresh is the beginning of a script that removes what another has left.
func (p *place) fresh() string {
	return `rm -rf work; mkdir work; cd work; echo text >file` + "\n"
}

// comparable is a result without what differs from run to run.
func comparable(r result) string {
	numbers := regexp.MustCompile("[0-9]+")
	r.took = 0
	r.errors = numbers.ReplaceAllString(r.errors, "NUMBER")
	r.output = strings.NewReplacer(`"NEARCALL_NO_RESIDENT", `, "", `"NEARCALL_NO_RESIDENT",`, "").Replace(r.output)
	return fmt.Sprint(r)
}
