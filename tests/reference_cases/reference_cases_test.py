"""The references as another language calls them."""

import array
import ctypes
import json
import os
import unittest


class ReferenceCases(unittest.TestCase):
    def setUp(self):
        self.library = ctypes.CDLL(os.environ["KILN_REFERENCE_CASES"])
        self.library.kiln_case_create.restype = ctypes.c_void_p
        self.library.kiln_case_error.restype = ctypes.c_char_p

    def create(self, op="row_argmax", **request):
        complete = {"op": op, "dims": {}, "dtypes": {}, "scalars": {}, "with": [], **request}
        call = self.library.kiln_case_create(json.dumps(complete).encode())
        if call is not None:
            self.addCleanup(self.library.kiln_case_destroy, ctypes.c_void_p(call))
        return ctypes.c_void_p(call)

    def put(self, call, name, values):
        return self.library.kiln_case_set(call, name, values.tobytes(), ctypes.c_size_t(values.itemsize * len(values)))

    def test_a_reference_runs_on_the_inputs_that_it_was_given(self):
        call = self.create(dims={"rows": 2, "n": 3})
        self.assertEqual(self.put(call, b"x", array.array("f", [1, 5, 5, -1, -3, float("nan")])), 1)
        self.assertEqual(self.library.kiln_case_run(call, 9, 0), 1)
        out = (ctypes.c_int64 * 2)()
        self.assertEqual(self.library.kiln_case_get(call, b"out", out, ctypes.c_size_t(16)), 1)
        self.assertEqual(list(out), [1, 2])

    def test_scalars_and_optional_arguments_are_those_of_the_request(self):
        dims = {"rows": 1, "width": 6, "k": 2, "p": 2}
        call = self.create("filter_topk_pages", dims=dims, scalars={"page_size": 3})
        self.put(call, b"scores", array.array("f", [1] * 6))
        self.put(call, b"indices", array.array("i", [4, 6]))
        self.put(call, b"page_table", array.array("i", [7, 9]))
        self.assertEqual(self.library.kiln_case_run(call, 9, 0), 1)
        out = (ctypes.c_int32 * 2)()
        self.assertEqual(self.library.kiln_case_get(call, b"page_indices", out, ctypes.c_size_t(8)), 1)
        self.assertEqual(list(out), [9 * 3 + 1, -1])
        self.assertEqual(self.library.kiln_case_get(call, b"raw_indices", out, ctypes.c_size_t(8)), 0)

    def test_what_is_wrong_is_said(self):
        self.assertIsNone(self.create("no_such_op").value)
        self.assertIn("no_such_op", self.library.kiln_case_error().decode())
        call = self.create(dims={"rows": 2, "n": 3})
        self.assertEqual(self.put(call, b"x", array.array("f", [1])), 0)
        self.assertIn("'x'", self.library.kiln_case_error().decode())


if __name__ == "__main__":
    unittest.main()
