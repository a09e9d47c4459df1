#include "textflag.h"

// func storeRelease32(word *atomic.Uint32, value uint32)
TEXT ·storeRelease32(SB), NOSPLIT, $0-12
	MOVQ word+0(FP), AX
	MOVL value+8(FP), CX
	MOVL CX, (AX)
	RET

// func publish(word *atomic.Uint32, value uint32, next, second *byte)
TEXT ·publish(SB), NOSPLIT, $0-32
	MOVQ word+0(FP), AX
	MOVL value+8(FP), CX
	MOVL CX, (AX)
	// PREFETCHW, which processors that do not know it take for a NOP
	MOVQ next+16(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // (AX)
	MOVQ second+24(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // (AX)
	RET
