"""The notebook of the samples runs from its first cell to its last, and draws."""
import importlib.util
import pathlib
import unittest

SAMPLES = pathlib.Path(__file__).resolve().parents[3] / "samples" / "python"
MISSING = [name for name in ("nbclient", "ipykernel", "pandas", "matplotlib") if importlib.util.find_spec(name) is None]


class Notebook(unittest.TestCase):
    @unittest.skipIf(MISSING, f"the notebook is not executed: {', '.join(MISSING)} is not installed")
    def test_it_runs(self):
        import nbclient
        import nbformat

        notebook = nbformat.read(SAMPLES / "plan_and_replay.ipynb", as_version=4)
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(SAMPLES)}}).execute()
        outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
        text = "".join(str(output.get("text", "")) + str(output.get("data", {})) for output in outputs)
        self.assertIn("resident=", text)
        self.assertIn("of prompt tokens hit", text)
        self.assertIn("0 reused, computed up to", text)
        self.assertIn("992 reused, computed up to 1000", text)
        self.assertEqual(sum("image/png" in output.get("data", {}) for output in outputs), 2)


if __name__ == "__main__":
    unittest.main()
