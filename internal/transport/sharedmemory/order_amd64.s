#include "textflag.h"

// func storeRelease32(word *atomic.Uint32, value uint32)
TEXT ·storeRelease32(SB), NOSPLIT, $0-12
	MOVQ word+0(FP), AX
	MOVL value+8(FP), CX
	MOVL CX, (AX)
	RET

// func prefetchToWrite(line, other *byte)
TEXT ·prefetchToWrite(SB), NOSPLIT, $0-16
	// PREFETCHW, which processors that do not know it take for a NOP
	MOVQ line+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // (AX)
	MOVQ other+8(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // (AX)
	RET
