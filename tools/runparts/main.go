// Runparts makes the parts of a long target, some beside each other, and ends with a
// table of what they took.
//
// Usage, from the folder with the Makefile:
//
//	runparts -name NAME [-first PARTS] [-beside PARTS] [-alone PARTS] [-lanes N] [-bound TIME]
//
// What others need is made first; nothing comes after it when it fails. NEARCALL_BUILT tells
// the others that it was made. Then parts are made
// beside each other, in so many lanes: most of them wait as much as they compute. Those
// that measure time come last, with nothing beside them. All go on after a failure.
//
// What a part said is in build/parts/PART.log. What the failed ones said is shown as they
// fail, and an excerpt in the end and in build/parts/NAME.failed: whoever runs this may
// see only the end of a long output. A part that takes longer than its bound is ended,
// with a list of the processes it was waiting for; none that has kept its environment outlives its part or this program.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	r := &runner{output: os.Stdout, folder: "build/parts", make: os.Getenv("MAKE")}
	if r.make == "" {
		r.make = "make"
	}
	flag.StringVar(&r.name, "name", "", "what the parts are parts of")
	first := flag.String("first", "", "parts that the others need, one after another")
	beside := flag.String("beside", "", "parts that may run beside each other")
	alone := flag.String("alone", "", "parts that run alone, after all others")
	flag.IntVar(&r.lanes, "lanes", 2, "how many parts run beside each other")
	flag.DurationVar(&r.bound, "bound", 15*time.Minute, "what a part may take")
	flag.Parse()
	if r.name == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	passed, err := r.run(ctx, strings.Fields(*first), strings.Fields(*beside), strings.Fields(*alone))
	if err != nil {
		fmt.Fprintln(os.Stderr, "runparts:", err)
	}
	if !passed || err != nil {
		os.Exit(1)
	}
}
