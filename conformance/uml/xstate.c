/*
 * Lets the User-Mode-Linux kernel 6.1 run on processors with more state than it knows.
 *
 * It keeps the extended registers of its processes in 2696 bytes, and writes them back as they are. The
 * host's kernel takes them only as a whole (xstateregs_set in arch/x86/kernel/fpu/regset.c), which with
 * AMX is more: "ptrace set fp regs failed, errno = 14", and the first process dies. Loaded by LD_PRELOAD,
 * this fills up what is written with zeros: the state of components that no process has used.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

typedef long (*ptrace_function)(enum __ptrace_request, pid_t, void *, void *);

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_function real;
	static char state[1 << 16];
	struct iovec whole = { .iov_base = state, .iov_len = sizeof(state) };
	const struct iovec *known;
	void *address, *data;
	va_list arguments;
	pid_t pid;

	va_start(arguments, request);
	pid = va_arg(arguments, pid_t);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);
	if (real == NULL)
		real = (ptrace_function)dlsym(RTLD_NEXT, "ptrace");
	if (request != PTRACE_SETREGSET || address != (void *)NT_X86_XSTATE)
		return real(request, pid, address, data);

	known = data;
	if (real(PTRACE_GETREGSET, pid, address, &whole) < 0)
		return -1;
	if (whole.iov_len <= known->iov_len)
		return real(request, pid, address, data);
	memset(state, 0, whole.iov_len);
	memcpy(state, known->iov_base, known->iov_len);
	return real(request, pid, address, &whole);
}
