//go:build arm64 && gc && !noasm

#include "textflag.h"

// func pause()
TEXT ·pause(SB), NOSPLIT, $0-0
	// On most processors ISB takes the tens of cycles that YIELD, which many
	// ignore, does not.
	ISB $15
	RET
