package embed

/*
#cgo CFLAGS: -I${SRCDIR}/../libnearcall/src
#include <stdlib.h>
#include "library.h"
*/
import "C"

import (
	"unsafe"

	"github.com/nearcall/nearcall/internal/direct"
)

//export nearcallEmbedStart
func nearcallEmbedStart(file, message *C.char, messageBytes C.uint64_t) C.int {
	err := loaded.start(C.GoString(file))
	if err == nil {
		return 0
	}
	text := unsafe.Slice((*byte)(unsafe.Pointer(message)), int(messageBytes))
	text[copy(text[:len(text)-1], err.Error())] = 0
	return -1
}

// announce tells the C part at which place other processes are served.
func announce(where *place) {
	path, latest := C.CString(where.path), C.CString(where.latest)
	defer C.free(unsafe.Pointer(path))
	defer C.free(unsafe.Pointer(latest))
	C.nearcall_embed_started(path, latest, C.int(where.descriptor), C.uint64_t(where.device), C.uint64_t(where.inode))
}

func beginOpening() { C.nearcall_embed_begin_opening() }

func endOpening() { C.nearcall_embed_end_opening() }

func keepDescriptor(fd int) { C.nearcall_embed_keep(C.int(fd)) }

//export nearcallEmbedCall
func nearcallEmbedCall(call *C.struct_nearcall_embed_call) C.int {
	functions := loaded.direct
	if call.function == C.NEARCALL_EMBED_UNNUMBERED {
		name := unsafe.String((*byte)(unsafe.Pointer(call.name)), int(call.name_bytes))
		if call.function = C.uint32_t(functions.Find(name)); call.function == C.NEARCALL_EMBED_UNNUMBERED {
			return C.NEARCALL_EMBED_ELSEWHERE // the other way knows how to refuse it
		}
	}
	payload := unsafe.Slice((*byte)(call.payload), int(call.payload_bytes))
	extensions := unsafe.Slice((*byte)(call.extensions), int(call.extension_bytes))
	run := functions.Run(uint32(call.function), uint8(call.codec), payload, extensions, uint64(call.deadline_ns))
	if run == nil {
		return C.NEARCALL_EMBED_ELSEWHERE
	}
	deliver(call, run)
	run.Release()
	return C.NEARCALL_EMBED_DONE
}

// deliver copies the result of the call, and what came with it, to the caller's memory.
func deliver(call *C.struct_nearcall_embed_call, run *direct.Run) {
	bytes := len(run.Extensions) + len(run.Payload)
	call.code, call.outcome = C.int32_t(run.Code), C.int32_t(run.Outcome)
	call.reply_extension_bytes = C.uint64_t(len(run.Extensions))
	call.reply_bytes = C.uint64_t(bytes)
	if call.reply_bytes > call.reply_capacity && C.nearcall_embed_grow(call, call.reply_bytes) != 0 {
		return // the caller sees that there are more bytes than it has room for
	}
	to := unsafe.Slice((*byte)(unsafe.Pointer(call.reply)), bytes)
	if len(run.Extensions) > 0 {
		to = to[copy(to, run.Extensions):]
	}
	copy(to, run.Payload)
}

//export nearcallEmbedOverran
func nearcallEmbedOverran(function C.uint32_t) { loaded.direct.Overran(uint32(function)) }
